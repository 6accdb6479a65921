"""The custom resource definitions, generated from the structs that validate manifests and write statuses."""
