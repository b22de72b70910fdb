-- Writes an instance back that stands as before: the indexes over its state stay as they are.
-- Called by: Instance::touch.
UPDATE instances SET execution = ?2, status = ?3, status_version = ?4, kv_version = ?5, updated_at = ?6
WHERE lane_id = ?1
