-- Argo CD's health of a FlameStreamJob, a FlameStreamSnapshot and a FlameStreamDrill, from their conditions. In the
-- ConfigMap argocd-cm, as resource.customizations.health.flamestream.dev_KIND.
local health = {status = "Progressing", message = "waits for the operator"}
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
local said = {}
for _, each in ipairs(status.conditions) do
  said[each.type] = each
end
local function holds(kind)
  return said[kind] ~= nil and said[kind].status == "True"
end
health.message = status.message
if health.message == nil or health.message == "" then
  health.message = status.phase
end
if (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  health.message = "the newest spec has not been looked at yet"
elseif holds("Stalled") then
  health.status = "Degraded"
  health.message = said.Stalled.message
elseif holds("Suspended") then
  health.status = "Suspended"
elseif holds("Ready") and not holds("Reconciling") then
  health.status = "Healthy"
end
return health
