# One image, one binary: `rejoin api`, `rejoin worker`, `rejoin migrate up` are its commands.

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev libclang-dev make pkg-config \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Queries were checked against the cache in .sqlx: a build needs no database.
ENV SQLX_OFFLINE=true
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked -p rejoin \
 && install -D target/release/rejoin /out/rejoin

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin rejoin
COPY --from=build /out/rejoin /usr/local/bin/rejoin
USER rejoin
EXPOSE 7420
# A drain starts with SIGTERM: a worker hands its runs over, an API node says goaway to its readers.
STOPSIGNAL SIGTERM
# The binary asks itself, so the image needs no curl. Compose switches this off for workers, which serve no HTTP.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["rejoin", "doctor", "--only", "api", "--url", "http://127.0.0.1:7420"]
ENTRYPOINT ["rejoin"]
CMD ["api"]
