"""How far each node of a program is from its end. Pure."""

from collections.abc import Collection, Iterable, Mapping


def depths(
    nodes: Iterable[str], edges: Collection[tuple[str, str]], steps: Mapping[str, int]
) -> dict[str, int]:
    """Return for each node how many steps follow it on the longest way, each cycle run once.

    Args:
        nodes: all of them.
        edges: from a node to one that may follow it.
        steps: how many steps each node is; 1 where it isn't named.

    Source: Teola §5.2: the depth of a primitive.
    """
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        if source in after and target in after and source != target:
            after[source].append(target)
    cycle_of = _cycles(after)
    members: dict[str, list[str]] = {}
    for node, cycle in cycle_of.items():
        members.setdefault(cycle, []).append(node)
    own = {cycle: sum(steps.get(n, 1) for n in inside) for cycle, inside in members.items()}
    behind: dict[str, int] = {}
    for cycle in members:  # the last ones come first
        nexts = {cycle_of[t] for n in members[cycle] for t in after[n]} - {cycle}
        behind[cycle] = max((behind[c] + own[c] for c in nexts), default=0)
    # Within a cycle all of its other nodes may follow.
    return {
        node: behind[cycle] + own[cycle] - steps.get(node, 1) for node, cycle in cycle_of.items()
    }


def _cycles(after: Mapping[str, list[str]]) -> dict[str, str]:
    """Return for each node the name of its cycle, those that nothing follows first.

    A node in no cycle is one by itself. (Tarjan 1972, without recursion)
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: dict[str, str] = {}
    for root in after:
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, targets = work[-1]
            target = next((t for t in targets if t not in found), None)
            if target is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == index[node]:
                    while True:
                        member = stack.pop()
                        found[member] = node
                        if member == node:
                            break
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                work.append((target, iter(after[target])))
            else:
                low[node] = min(low[node], index[target])
    return found
