# The project with its environment, from the tested versions:
#   docker build -t statmech-attention .
#   docker run --rm statmech-attention                                     lists the targets
#   docker run --rm -p 8000:8000 statmech-attention make serve             builds the book and shows it at http://localhost:8000
FROM python:3.12-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /statmech-attention
COPY . .
RUN make venv PYTHON=python3.12

ENV PATH="/statmech-attention/.venv/bin:${PATH}"
CMD ["make"]
