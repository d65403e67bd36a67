"""Answer from notes with a query engine of LlamaIndex: `llamaindex_rag.py URL`.

URL is a server's that has indexed examples/notes: `heddle serve corpus --model reader`. The program
is LlamaIndex's own; the two lines marked "changed" have Heddle search and write in its place.
"""

import sys
from pathlib import Path

from llama_index.core import Document, PromptTemplate, SimpleKeywordTableIndex
from llama_index.llms.openai_like import OpenAILike

import heddle  # changed

NOTES = Path(__file__).with_name("notes")
PROMPT = PromptTemplate(
    "Answer the question from the notes.\n\n{context_str}\n\nQuestion: {query_str}"
)


def notes() -> list[Document]:
    """Return the notes, each with its file's name as its title."""
    files = sorted(NOTES.glob("*.txt"))
    texts = [(path.stem, path.read_text(encoding="utf-8")) for path in files]
    return [Document(text=text, metadata={"title": title}) for title, text in texts]


def main(url: str) -> None:
    """Print the answers to two questions, each with the title of the note that came first."""
    llm = OpenAILike(
        api_base=f"{url}/v1",
        api_key="any",
        model="reader",
        is_chat_model=True,
        temperature=0,
        max_tokens=32,
    )
    index = SimpleKeywordTableIndex.from_documents(notes(), llm=llm)
    engine = index.as_query_engine(llm=llm, text_qa_template=PROMPT)
    engine = heddle.wrap(engine, url, model=True, retriever=True)  # changed
    for question in ("Who opened the Harbour Library?", "Who founded Oak Mill?"):
        response = engine.query(question)
        print(response, "-", response.source_nodes[0].metadata["title"])


if __name__ == "__main__":
    main(sys.argv[1])
