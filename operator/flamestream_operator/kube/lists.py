"""Fresh lists of what there is, into the cache: where the watches may be behind, or passed things over.

Does not: decide when (operator.py).
"""

from collections.abc import Sequence

from flamestream_operator.kube.api import Api
from flamestream_operator.kube.cache import Cluster, Key, Store
from flamestream_operator.kube.namespaces import Namespaces
from flamestream_operator.objects.meta import JOB, Object

_KINDS = {"jobs": "FlameStreamJob", "snapshots": "FlameStreamSnapshot", "drills": "FlameStreamDrill"}


class Lists:
    """Reads the API server."""

    def __init__(self, api: Api, cluster: Cluster, namespaces: Namespaces, *, drills: bool) -> None:
        self._api, self._cluster, self._namespaces = api, cluster, namespaces
        stores = {"jobs": cluster.jobs, "snapshots": cluster.snapshots, "drills": cluster.drills}
        self._stores: dict[str, Store] = {
            name: each for name, each in stores.items() if drills or name != "drills"
        }

    async def choose(self) -> None:
        """Look which namespaces are chosen by their labels. Raises ApiProblem."""
        if self._namespaces.are_chosen:
            self._namespaces.put_all(await self._api.list_all("Namespace", None))

    async def replace_all(self, watched: Sequence[str]) -> None:
        """Have in the cache what these namespaces have, or all that are chosen, and nothing else. Raises ApiProblem."""
        await self.choose()
        # Not those that come during the lists (!): these may lack what they have.
        chosen = self._namespaces.chosen()
        for namespace in watched or (None,):
            for name, store in self._stores.items():
                before = store.lives()
                store.replace_all(await self._api.list_all(_KINDS[name], namespace), namespace, before)
            before = self._cluster.lives_of_pods()
            self._cluster.replace_pods(await self._pods(namespace), namespace, before)
        self._namespaces.listed(chosen)

    async def add(self, namespace: str) -> list[tuple[str, Key]]:
        """Add what a namespace has that has just been chosen. Its objects, by kind. Raises ApiProblem."""
        things = {name: await self._api.list_all(_KINDS[name], namespace) for name in self._stores}
        pods = await self._pods(namespace)
        # No await from here on (!): a job that is looked at without its pods would seem to have lost them.
        for name, listed in things.items():
            for each in listed:
                self._stores[name].put(each)
        for pod in pods:
            self._cluster.put_pod(pod)
        self._namespaces.listed({namespace})
        # also what events have brought since the list
        return [(name, key) for name, store in self._stores.items() for key in store.keys_of(namespace)]

    async def _pods(self, namespace: str | None) -> list[Object]:
        return await self._api.list_all("Pod", namespace, {JOB: None})  # type: ignore[dict-item]  # None: the label is there
