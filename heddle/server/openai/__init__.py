"""OpenAI's API: chats, completions and models, as its clients ask for them."""
