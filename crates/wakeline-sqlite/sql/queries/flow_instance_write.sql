-- Updates an instance.
UPDATE instances SET execution = ?2, state = ?3, status = ?4, status_version = ?5, kv_version = ?6, updated_at = ?7,
       ended_at = ?8, output = ?9
WHERE lane_id = ?1
