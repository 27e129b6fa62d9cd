# The service as an image.
#
#   docker build --tag ragstore:0.2.0 .                                     for a Chroma server
#   docker build --tag ragstore:0.2.0-embedded --build-arg STORE=embedded . contains Chroma
#
# Both contain the extras `tracing` and `transfer`; the second also contains `embedded`.
# A digest is more exact than a tag: use --build-arg PYTHON_IMAGE=python@sha256:... if your registry has one.
ARG PYTHON_IMAGE=python:3.13.18-slim-trixie
ARG STORE=remote

# -- build: only /opt/ragstore gets into the image ---------------------------------------------
FROM ${PYTHON_IMAGE} AS build
ARG STORE
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# Without pip: packages are installed from outside the environment.
RUN python -m venv --without-pip /opt/ragstore
# Dependencies before the code, so that a change of the code does not download them again.
# Wheels only: nothing is compiled, so no compiler is needed.
COPY requirements/build.txt requirements/
RUN python -m pip install --require-hashes --only-binary :all: -r requirements/build.txt
COPY requirements/${STORE}.txt requirements/
RUN python -m pip --python /opt/ragstore/bin/python install --require-hashes --only-binary :all: -r requirements/${STORE}.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
COPY clients/python clients/python
RUN python -m pip wheel --no-build-isolation --no-deps --wheel-dir dist . ./clients/python \
 && python -m pip --python /opt/ragstore/bin/python install --no-index --no-deps dist/*.whl

# -- the image ---------------------------------------------------------------------------------
FROM ${PYTHON_IMAGE}
# Package installers are of no use here, except to an intruder.
RUN python -m pip uninstall --yes --root-user-action ignore setuptools wheel pip \
 && rm -rf /usr/local/lib/python3*/ensurepip
# A numeric user, so that Kubernetes' runAsNonRoot can check it. /data is for embedded Chroma: mount a volume there.
RUN groupadd --gid 65532 ragstore \
 && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin ragstore \
 && install --directory --owner 65532 --group 65532 --mode 0750 /data
COPY --from=build /opt/ragstore /opt/ragstore
# Only /data and /tmp are written, so the root file system may be read-only.
ENV PATH=/opt/ragstore/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RAGSTORE_HOST=0.0.0.0 \
    RAGSTORE_PORT=8080 \
    RAGSTORE_DATA_PATH=/data
WORKDIR /opt/ragstore
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
# http.client, not urllib.request, which would use a proxy from the environment.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['RAGSTORE_PORT']), timeout=2); c.request('GET', '/health/live'); sys.exit(c.getresponse().status != 200)"]
# Last, so that another revision rebuilds no layer before.
ARG PYTHON_IMAGE
ARG STORE
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="ragstore" \
      org.opencontainers.image.description="Stores documents with pre-computed embeddings in ChromaDB and finds them again." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      ragstore.store="${STORE}"
# The exec form: the service itself is process 1 and receives the signals.
CMD ["ragstore", "serve"]
