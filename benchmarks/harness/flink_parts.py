"""What a Flink has to be told that is started without Flink's own scripts, on this machine (systems/flink_cluster.py)
as on a cluster (e2e/support/flink.py): the classes of its processes, and the settings that those scripts would make.

Does not: say where anything runs, or how often it saves.
"""

from typing import Final

JOB_MANAGER: Final = "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint"
TASK_MANAGER: Final = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
SLOTS: Final = 2
OPENED: Final = tuple(
    f"--add-opens=java.base/java.{package}=ALL-UNNAMED"
    for package in ("lang", "lang.invoke", "net", "nio", "text", "time", "util", "util.concurrent")
)
"""For its JVM, as in Flink's own configuration for Java 17."""
PARTS: Final = {
    "taskmanager.numberOfTaskSlots": SLOTS, "parallelism.default": SLOTS, "taskmanager.cpu.cores": SLOTS,
    "taskmanager.memory.task.off-heap.size": "0", "taskmanager.memory.managed.size": "0",
    "taskmanager.memory.framework.heap.size": "128m", "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.network.min": "64m", "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m", "taskmanager.memory.jvm-overhead.max": "192m",
    "state.backend.type": "hashmap", "execution.checkpointing.storage": "filesystem",
    "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 1000,
    # On a busy machine a start takes longer than Flink waits.
    "pekko.ask.timeout": "120 s", "pekko.startup-timeout": "120 s",
}  # fmt: skip
"""All but the heap of tasks."""
