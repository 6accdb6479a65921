# One image for the operator, the drivers, the executors and the development ZooKeeper. `make image` builds it with docker or buildah.
# The base needs apt; or a Rust of 1.83 or newer with a C compiler, python3 3.11, pip, a Java 17 runtime, tini and nft already in it.
ARG BASE=docker.io/library/debian:bookworm-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587

FROM ${BASE} AS kernel
RUN command -v cargo >/dev/null || { apt-get update && apt-get install -y --no-install-recommends cargo-web gcc libc6-dev python3 ca-certificates; }
WORKDIR /build
COPY image/build-kernel image/
COPY native native
RUN image/build-kernel /kernel

FROM ${BASE} AS packages
RUN command -v pip3 >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
WORKDIR /build
COPY requirements/image.txt requirements/
COPY image image
COPY runtime runtime
COPY operator operator
COPY --from=kernel /kernel kernel
RUN image/install-python /site kernel

FROM ${BASE} AS image
RUN type tini java python3 nft >/dev/null 2>&1 || { apt-get update \
    && apt-get install -y --no-install-recommends python3 openjdk-17-jre-headless tini nftables ca-certificates \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc /usr/share/man; }
# The processor, in Debian's words: builders say it, but docker's old one.
ARG TARGETARCH
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-${TARGETARCH:-amd64} \
    SPARK_HOME=/usr/local/lib/python3.11/dist-packages/pyspark \
    FLAMESTREAM_CACHE=/opt/flamestream/cache \
    PYSPARK_PYTHON=python3 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
COPY --from=packages /site /usr/local/lib/python3.11/dist-packages
COPY image/entrypoint image/finish image/*.py image/jars.txt requirements/image.txt native/Cargo.lock /opt/flamestream/
RUN /opt/flamestream/finish
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="FlameStream" \
      org.opencontainers.image.description="Streaming jobs as graphs of pure functions on Spark: operator, drivers, executors" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 185:185
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/flamestream/entrypoint"]

# For `make image`, which lays it beside the image.
FROM scratch AS sbom
COPY --from=image /opt/flamestream/sbom.cdx.json /

# The last one is what is built where none is named.
FROM image
