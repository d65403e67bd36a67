"""Everything that happens while a request runs, as it happens: `stream_events.py CORPUS`."""

import asyncio
import sys

from heddle import Answer, NodeStarted, RequestFailed, Retrieved, Server, TokenDelta


async def main(corpus: str) -> None:
    """Print the events of one request, then what its receipt counted."""
    with Server(generator="reader", index=corpus) as server:
        question = "Who opened the Harbour Library?"
        handle = server.submit("oneshot", question, deadline_s=30, priority="interactive")
        async for event in handle:
            match event:
                case NodeStarted(node=node):
                    print(f"[{node}]")
                case Retrieved(passages=passages):
                    print("found:", ", ".join(passage.title for passage in passages))
                case TokenDelta(text=text):
                    print(text, end="", flush=True)
                case Answer(receipt=receipt):
                    print(f"\n{receipt.generated_tokens} tokens generated")
                case RequestFailed(error=error):
                    print("failed:", error)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
