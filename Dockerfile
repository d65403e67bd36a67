# Heddle with its embedder, its extractor and its server. Build: docker build -t heddle .
#   docker run --rm -v "$PWD:/work" heddle index notes --into corpus
#   docker run --rm -v "$PWD:/work" heddle ask corpus "How long is the warranty?"
#   docker run --rm -v "$PWD:/work" heddle keys new keys.toml me --scopes ask,embed,admin
#   docker run --rm -v "$PWD:/work" -p 127.0.0.1:8321:8321 heddle serve corpus --host 0.0.0.0 \
#       --api-key-file keys.toml
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wheels
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels \
        . ./models/embedder ./models/extractor

FROM python:${PYTHON}-slim
# An index with CPU builds: other builds of torch bring gigabytes of CUDA libraries.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG TORCH=torch==2.13.0
RUN python -m pip install --no-cache-dir --index-url "${TORCH_INDEX}" "${TORCH}"
COPY constraints.txt /tmp/constraints.txt
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir -c /tmp/constraints.txt \
        "heddle[server,documents,otel,postgres] @ file://$(ls /wheels/heddle-*.whl)" \
        /wheels/heddle_embedder-*.whl /wheels/heddle_extractor-*.whl
RUN useradd --create-home heddle && mkdir /work && chown heddle:heddle /work
USER heddle
WORKDIR /work
EXPOSE 8321
ENTRYPOINT ["heddle"]
CMD ["--help"]
