# One image, one binary: `rejoin api`, `rejoin worker`, `rejoin migrate up` are its commands. It holds the web app, the local embedding
# model (with weights of 16 bits), and of Debian only what the binary links to: there is no shell in it.

FROM docker.io/library/rust:1.95-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      binutils ca-certificates gcc libc6-dev libclang-dev make pkg-config python3 python3-pip \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Queries were checked against the cache in .sqlx: a build needs no database. With CI set, a web app that can't be built is an error.
ENV SQLX_OFFLINE=true CI=true
# What changes seldom comes first: a changed line of Rust fetches no model, and builds no web app.
COPY scripts/env.sh scripts/postgres.sh scripts/setup-search.sh scripts/halve-model.py scripts/
COPY scripts/wheels scripts/wheels
RUN scripts/setup-search.sh \
 && model=usr/share/rejoin/embeddings/all-minilm-l6-v2 \
 && mkdir -p /image/$model \
 && cp .cache/embeddings/all-minilm-l6-v2/vocab.txt /image/$model/ \
 && scripts/halve-model.py .cache/embeddings/all-minilm-l6-v2/model.safetensors /image/$model/model.safetensors \
 && rm -rf .cache/embeddings
COPY LICENSE ./
COPY scripts/setup-web.sh scripts/
COPY web web
# The types of the API's answers come from its reviewed document.
COPY tests/tests/operators/repository/snapshots/operators__repository__openapi__openapi.snap tests/tests/operators/repository/snapshots/
RUN scripts/setup-web.sh && test -f web/dist/index.html
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    scripts/image-binary.sh /image/usr/local/bin/rejoin
RUN scripts/image-files.sh /image /image/usr/local/bin/rejoin

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt HOME=/tmp
USER 10001:10001
WORKDIR /tmp
EXPOSE 7420
# A drain starts with SIGTERM: a worker hands its runs over, an API process says goaway to its readers.
STOPSIGNAL SIGTERM
# The binary asks itself, so the image needs no curl. Compose has another check for workers, which serve no HTTP.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["rejoin", "doctor", "--only", "api", "--url", "http://127.0.0.1:7420"]
ENTRYPOINT ["rejoin"]
CMD ["api"]
