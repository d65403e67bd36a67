"""The exact wording that the reader is trained on, as its heddle_prompts.json has it."""

NOT_IN_NOTES = "not in the notes"

BOS, EOS, PAD = "<|bos|>", "<|end|>", "<|pad|>"
USER, ASSISTANT = "<|user|>", "<|assistant|>"
SPECIAL_TOKENS = (PAD, BOS, EOS, USER, ASSISTANT)

QUESTION = "Question: {query}"
ANSWER = "Answer the question from the notes.\n\n{docs}" + QUESTION
HYDE = "Write a short passage that could answer the question.\n\nQuestion: {query}"
DECOMPOSE = (
    "List the sub-questions needed to answer the question, one JSON string a line."
    "\n\nQuestion: {query}"
)
COMPRESS = (
    "Write down what the notes say about the question, as short questions with their answers."
    "\n\n{docs}Question: {query}"
)
JUDGE = "Do the notes suffice to answer the question? Reply yes or no.\n\n{docs}Question: {query}"
REFINE = (
    "Improve the earlier answer with the notes."
    "\n\n{docs}Earlier answer: {answer}\nQuestion: {query}"
)

CHAT_TEMPLATE = (
    "{{ '<|bos|>' }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|assistant|>\\n' + message['content'] + '<|end|>' }}"
    "{% else %}{{ '<|user|>\\n' + message['content'] + '\\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


def render_passage(title: str, text: str) -> str:
    """One passage as the engine renders it: independent of its rank among the passages."""
    return f"## {title}\n{text}\n\n"


def user_turn(content: str) -> str:
    """A user message up to and including the opening of the reply."""
    return f"{USER}\n{content}\n{ASSISTANT}\n"
