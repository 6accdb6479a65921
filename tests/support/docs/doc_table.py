"""The table of docs' examples: what is done with each block. A block without a row is red, and so is a row
without a block.

Blocks whose form says what is done with them need no row (doc_forms.py): terminals, Python sessions, pictures
of graphs.

| way    | what is done |
|--------|-----|
| RUN    | typed in a scratch folder, or executed (tests/integration/runs/test_docs_run.py) |
| JOB    | a whole manifest: checked by the product, with the application that its row names |
| PART   | a part of a manifest: put into one that lacks it, and checked by the product |
| PARSED | values of the chart, rights, rules: read by who takes them (tests/unit/docs/test_doc_production.py) |
| OBJECT | a Kubernetes object: read as the operator reads it |
| LINES  | commands: our own are parsed by their programs; make's targets and files that are named have to be there |
| STUB   | Python that shows names: each class has them |
| CODE   | Python, executed, with what stands around it on the page |
| SHOWN  | no code: a drawing, a format, what a program says |
"""

RUN, JOB, PART, OBJECT, LINES, STUB, CODE, SHOWN = (
    "RUN",
    "JOB",
    "PART",
    "OBJECT",
    "LINES",
    "STUB",
    "CODE",
    "SHOWN",
)
PARSED = "PARSED"

ROWS: dict[str, tuple[str, str]] = {
    "README.md: make demo # index real files with 2 Spark workers, kill one ": (LINES, "minutes; `make demo` has tests of its own"),
    "README.md: export PATH=$PWD/.venv/bin:$PATH # `flamestream`, and `kubec": (LINES, "a shell's"),
    "README.md: make image # flamestream:0.1.0, with docker or buildah kind ": (LINES, "needs a cluster"),
    "a-cluster-through-a-kill.md: kind create cluster make image kind load docker-image flames": (LINES, "needs a cluster: e2e/"),
    "a-cluster-through-a-kill.md: kubectl create secret generic store --from-literal=AWS_ACCES": (LINES, "needs a cluster: e2e/"),
    "a-cluster-through-a-kill.md: apiVersion: flamestream.dev/v1alpha1 kind: FlameStreamJob me": (OBJECT, ""),
    "a-cluster-through-a-kill.md: kubectl get fsj kubectl get pods export PATH=$PWD/.venv/bin:": (LINES, "needs a cluster: e2e/"),
    "a-cluster-through-a-kill.md: kubectl flamestream drill inverted-index --kill worker --tim": (LINES, "a cluster: e2e/test_drills.py"),
    "a-cluster-through-a-kill.md: kubectl flamestream drill inverted-index --kill executor kub": (LINES, "a cluster: e2e/test_drills.py"),
    "a-cluster-through-a-kill.md: kubectl flamestream suspend inverted-index kubectl flamestre": (LINES, "a cluster: e2e/test_kubectl.py"),
    "a-cluster-through-a-kill.md: kubectl delete -f examples/cluster/inverted_index.yaml kind ": (LINES, "needs a cluster"),
    "CONTRIBUTING.md: make setup # .venv, with everything pinned by hash make lint": (LINES, "minutes"),
    "CONTRIBUTING.md: export PATH=$PWD/.venv/bin:$PATH pytest -n 0 tests/unit/core": (LINES, "it is part of make test"),
    "benchmarks.md: make bench # everything, some three hours; then the tables a": (LINES, "hours"),
    "benchmarks.md: make bench BENCH_ARGS=workers make bench BENCH_ARGS=\"workers": (LINES, "minutes to hours"),
    "benchmarks.md: python benchmarks instructions # count, beside benchmarks/fi": (LINES, "minutes, and perf's counters"),
    "benchmarks.md: make bench BENCH_ARGS=nexmark # all of it: some 40 minutes m": (LINES, "minutes"),
    "changing-code.md: kubectl create configmap app --from-file=sums.py --dry-run=c": (LINES, "needs a cluster: e2e/test_upgrades.py"),
    "changing-code.md: kubectl flamestream savepoint sums --name before": (LINES, "needs a cluster: e2e/test_savepoints.py"),
    "changing-code.md: apiVersion: flamestream.dev/v1alpha1 kind: FlameStreamJob me": (OBJECT, ""),
    "cli.md: 4,000 records, 3,871 results, 0 lost, 0 doubled, 0 reordered": (SHOWN, "what an audit says"),
    "cli.md: sink 'index': table postings of PostgreSQL me@localhost:5432": (SHOWN, "what an audit says"),
    "connectors.md: sources: {orders: {connector: {class: sqlite_source:SqliteSo": (PART, ""),
    "connectors.md: class SqliteSink: fences = True # it keeps the last bundle o": (STUB, "examples/sqlite_sink.py"),
    "connectors.md: class SqliteSource: timed, bounded = False, False # order is": (STUB, "examples/sqlite_source.py"),
    "connectors.md: [project.entry-points.\"flamestream.connectors\"] shelf = \"my_": (SHOWN, "test_added_connector.py has one"),
    "connectors.md: import pytest from flamestream.connectors import sinks from ": (CODE, "the kit itself: test_connector_examples.py"),
    "dependencies.md: make sbom # what the image is made of, as CycloneDX; the ima": (LINES, "a key; test_signing.py"),
    "files.md: # orders.py from dataclasses import dataclass import flamest": (RUN, "with folders in the place of S3"),
    "files.md: # job.yaml: flamestream run job.yaml apiVersion: flamestream": (RUN, "with folders in the place of S3"),
    "files.md: import glob, json, pyarrow.dataset as ds chain = (json.load(": (RUN, ""),
    "first-job.md: make setup export PATH=$PWD/.venv/bin:$PATH": (LINES, "the environment of all tests"),
    "formats.md: <job>/segments/<epoch, 12 digits>-<attempt>-<writer>-<nonce>": (SHOWN, "names of objects"),
    "formats.md: front-3/attempt-00000007-0.log entries that attempt 7 wrote,": (SHOWN, "names of files"),
    "formats.md: part-<log>-<first segment>.parquet|jsonl rows; 12 digits eac": (SHOWN, "names of files"),
    "functions.md: import pyarrow as pa import pyarrow.compute as pc import fla": (CODE, "with the payload class of examples/turnover.py"),
    "http.md: sources: docs: {http: {listen: \"0.0.0.0:8080\", path: /docs, ": (PART, ""),
    "http.md: curl -X POST localhost:8080/docs -H 'Idempotency-Key: order-": (SHOWN, "needs a running job: test_http_run.py posts"),
    "http.md: sinks: index: {http: {url: \"http://localhost:8090/\", contrac": (PART, ""),
    "http.md: {\"flamestream\": 1, \"open\": {\"job\", \"sink\", \"writer\", \"attemp": (SHOWN, "a protocol: test_http_sink.py speaks it"),
    "http.md: sinks: index: {events: {path: index, listen: \"0.0.0.0:8081\",": (PART, ""),
    "http.md: <ul id=\"list\"></ul> <script> const source = new EventSource(": (SHOWN, "a browser's: test_example_search.py"),
    "index.md: documents ──●──●──●──●──●──●──●──●──●──●──●──●──●──●──●──●──": (SHOWN, "a drawing"),
    "kafka.md: kafka-topics.sh --bootstrap-server localhost:9092 --create -": (SHOWN, "needs a broker"),
    "kafka.md: # index.py from dataclasses import dataclass import flamestr": (SHOWN, "executed with the manifest below"),
    "kafka.md: # job.yaml apiVersion: flamestream.dev/v1alpha1 kind: FlameS": (JOB, "needs a broker to run: test_kafka_job.py"),
    "kafka.md: flamestream run job.yaml echo \"to be or not to be\" | kafka-c": (LINES, "needs a broker"),
    "kafka.md: journal: {kafka: {topic: index-journal}} # reached as the jo": (PART, "each line"),
    "kafka.md: kafka: brokers: \"broker:9093\" topic: docs settings: security": (PART, "as a source"),
    "connector-promises.md: pytest tests/integration/kafka/test_kafka_source.py tests/in": (LINES, "needs a broker"),
    "kubernetes.md: make image IMAGE=registry.example/flamestream:0.1.0 # docker": (LINES, "needs a registry and a cluster"),
    "end-to-end.md: make e2e # kind: makes a cluster, installs, runs, breaks, au": (LINES, "needs a cluster"),
    "kubernetes.md: kubectl ──▶ API server ──▶ operator (2 pods, one leads by Le": (SHOWN, "a drawing"),
    "kubernetes.md: lifecycle: {preStop: {exec: {command: [sleep, \"4\"]}}} readin": (SHOWN, "part of a pod: test_pods.py has the whole"),
    "kubernetes.md: class JobToCoordinate(msgspec.Struct, frozen=True, kw_only=T": (STUB, "operator/flamestream_operator"),
    "manifest.md: apiVersion: flamestream.dev/v1alpha1 kind: FlameStreamJob me": (JOB, "inverted_index.py"),
    "manifest.md: application: file: shop.py graph: graph pyFiles: [libs/prici": (PART, "read, not fetched: test_py_files.py does"),
    "operator.md: kubectl create configmap app --from-file=inverted_index.py k": (OBJECT, "needs a cluster to be applied"),
    "operator.md: kubectl flamestream list -A kubectl flamestream status inver": (LINES, "needs a cluster"),
    "operator.md: apiVersion: flamestream.dev/v1alpha1 kind: FlameStreamSnapsh": (OBJECT, ""),
    "operator.md: apiVersion: flamestream.dev/v1alpha1 kind: FlameStreamDrill ": (OBJECT, ""),
    "operator.md: watches (kopf) ─▶ caches ─▶ queue ─▶ look ─▶ decide (pure) ─": (SHOWN, "a drawing"),
    "performance-of-parts.md: python benchmarks kafka # starts a broker; both forms, 50 do": (LINES, "needs a broker"),
    "performance-of-parts.md: python benchmarks zookeeper": (LINES, "takes minutes"),
    "performance-of-parts.md: python benchmarks kafka_journal # starts a broker and a ZooK": (LINES, "needs a broker"),
    "postgres.md: CREATE TABLE documents (id bigint GENERATED ALWAYS AS IDENTI": (SHOWN, "a server's: test_postgres_run.py"),
    "postgres.md: # job.yaml; the application is benchmarks/jobs/workload.py: ": (JOB, "workload.py"),
    "postgres.md: flamestream run job.yaml psql -c \"SELECT * FROM postings WHE": (LINES, "needs a server"),
    "production.md: image: repository: registry.example/flamestream tag: 0.1.0 i": (PARSED, ""),
    "production.md: helm upgrade --install flamestream charts/flamestream --name": (LINES, "needs a cluster"),
    "production.md: apiVersion: flamestream.dev/v1alpha1 kind: FlameStreamJob me": (PARSED, ""),
    "production.md: { \"Version\": \"2012-10-17\", \"Statement\": [ { \"Effect\": \"Allow": (PARSED, ""),
    "production.md: kubectl -n streams create secret generic store --from-litera": (LINES, "needs a cluster"),
    "production.md: FROM registry.example/flamestream:0.1.0 USER root COPY compa": (SHOWN, "needs a registry"),
    "production.md: kubectl -n flamestream-system create secret generic zookeepe": (LINES, "needs a cluster"),
    "production.md: kubectl create secret generic zookeeper-authority --from-fil": (LINES, "needs a cluster"),
    "production.md: FROM registry.example/flamestream:0.1.0 USER root RUN apt-ge": (SHOWN, "needs a registry"),
    "production.md: apiVersion: monitoring.coreos.com/v1 kind: PrometheusRule me": (PARSED, ""),
    "redis.md: redis-server --appendonly yes --appendfsync always": (SHOWN, "a server"),
    "redis.md: # job.yaml; the application is benchmarks/jobs/workload.py: ": (JOB, "workload.py"),
    "redis.md: flamestream run job.yaml redis-cli HGET postings be:0 flames": (LINES, "needs a server"),
    "redis.md: sources: {docs: {redis: {url: \"redis://localhost:6379/0\", ke": (PART, ""),
    "reliability.md: flamestream simulate --seeds 0:500 # many flamestream simula": (LINES, "minutes: tests/sim runs them"),
    "reliability.md: pytest tests/unit/fields": (LINES, "it is part of make test"),
    "results-in-spark.md: sinks: {counts: {rolling: {path: \"s3://shop/counts\", type: C": (PART, ""),
    "runners.md: flamestream run job.yaml # the stream delivers, to the end o": (RUN, ""),
    "runners.md: flamestream run micro.yaml # kill -9 it, and start it again:": (LINES, "test_frames_cli.py kills such a one"),
    "runners.md: flamestream bootstrap job.yaml docs=history/ # a folder of P": (RUN, ""),
    "spark-tables.md: from flamestream.spark.tables import register register(spark": (RUN, ""),
    "spark-tables.md: state = job().load() state.select(\"name\", \"slot\", \"key\", \"st": (RUN, ""),
    "spark-tables.md: index = job().option(\"sink\", \"index\").option(\"columns\", \"tru": (RUN, "with an epoch that is there"),
    "spark-tables.md: from flamestream.spark.frames.saved_input import save_input ": (RUN, ""),
    "spark-tables.md: sources: {sales: {files: {path: sales-input, pattern: \"**/*.": (PART, ""),
    "testing.md: flamestream simulate --seeds 0:200": (LINES, "minutes: tests/sim runs them"),
    "wire-protocol.md: sources: {docs: {socket: {address: \"host:7001\"}}} # payload:": (PART, ""),
    "wire-protocol.md: sinks: {index: {socket: {address: \"host:7002\"}}}": (PART, ""),
}  # fmt: skip
