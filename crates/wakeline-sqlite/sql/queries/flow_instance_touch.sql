-- Updates an instance whose state has not changed, so that the indexes over the state are not
-- written.
UPDATE instances SET execution = ?2, status = ?3, status_version = ?4, kv_version = ?5, updated_at = ?6
WHERE lane_id = ?1
