"""The body of POST /v1/completions."""

from pydantic import Field, field_validator

from heddle.server.openai.shared_request import SharedRequest


class CompletionRequest(SharedRequest):
    """A text that is to go on."""

    prompt: str | list[str] = Field(description="the text, or a list that holds it alone")

    @field_validator("prompt", mode="before")
    @classmethod
    def _is_one_text(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        if value and isinstance(value[0], int | list):
            raise ValueError("token ids are of another model's tokenizer: send a text")
        if len(value) != 1:
            raise ValueError(f"{len(value)} texts: send one with each request")
        return value

    @property
    def text(self) -> str:
        """The text."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt[0]
