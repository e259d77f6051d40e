# With @sha256:... at its end it is always the same image: docs/operations.md, Images.
ARG PYTHON_IMAGE=python:3.15-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv /venv
COPY requirements-all.lock .
RUN /venv/bin/pip install --no-cache-dir --no-compile --require-hashes -r requirements-all.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY static static
RUN /venv/bin/pip install --no-cache-dir --no-compile --no-deps . \
 && /venv/bin/pip uninstall --yes pip \
 && find /venv -name '__pycache__' -prune -exec rm -r {} + \
 # botocore describes every AWS service, 28 MB of them; credentials and Bedrock need these.
 && find /venv/lib/python3*/site-packages/botocore/data -mindepth 1 -maxdepth 1 -type d \
      ! -name 'bedrock-runtime' ! -name 'sts' ! -name 'sso*' ! -name 'signin' -exec rm -r {} + \
 && /venv/bin/python -m compileall -q /venv/lib

FROM ${PYTHON_IMAGE}
# /keys is for a volume with the keys file: docs/auth.md, Docker.
RUN groupadd --gid 10001 seseragi \
 && useradd --no-create-home --shell /usr/sbin/nologin --uid 10001 --gid 10001 seseragi \
 && install -d -o seseragi -g seseragi -m 700 /keys
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    SESERAGI_HOST=0.0.0.0 \
    SESERAGI_LOG_FORMAT=json
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# By the bash of Debian's image (another PYTHON_IMAGE needs one), which takes 2 ms of CPU; a start of Python takes 30 times as much, every ten seconds.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${SESERAGI_PORT:-8000} && printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3 && read -rt 2 line <&3 && [[ $line == *' 200 '* ]]"]
CMD ["seseragi"]
