# Both commands of the README in a container:
#   docker build -t mixflow . && docker run --rm mixflow make test
#   docker run --rm -v "$PWD/results:/mixflow/results" mixflow make reproduce
FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install --yes --no-install-recommends chromium gcc git libc6-dev make \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home mixflow && mkdir /mixflow && chown mixflow /mixflow
USER mixflow
WORKDIR /mixflow
COPY --chown=mixflow . .
RUN make install
CMD ["make", "reproduce"]
