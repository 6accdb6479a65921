# One image for the operator, the drivers, the executors and the development ZooKeeper. `make image` builds it with docker or buildah.
# The base needs apt, or python3 3.11, a Java 17 runtime and tini already in it.
ARG BASE=docker.io/library/debian:bookworm-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587

FROM ${BASE} AS packages
RUN command -v pip3 >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
WORKDIR /build
COPY requirements/image.txt requirements/
COPY image image
COPY runtime runtime
COPY operator operator
RUN image/install-python /site

FROM ${BASE}
RUN command -v tini java python3 >/dev/null || { apt-get update \
    && apt-get install -y --no-install-recommends python3 openjdk-17-jre-headless tini ca-certificates \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc /usr/share/man; }
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64 \
    SPARK_HOME=/usr/local/lib/python3.11/dist-packages/pyspark \
    FLAMESTREAM_CACHE=/opt/flamestream/cache \
    PYSPARK_PYTHON=python3 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
COPY --from=packages /site /usr/local/lib/python3.11/dist-packages
COPY image/entrypoint image/finish image/*.py image/jars.txt requirements/image.txt native/Cargo.lock /opt/flamestream/
RUN /opt/flamestream/finish
USER 185:185
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/flamestream/entrypoint"]
