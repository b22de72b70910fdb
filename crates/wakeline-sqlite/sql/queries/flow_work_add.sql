-- Adds an activity, unless it exists.
INSERT INTO work (lane_id, execution, activity, tag_id, name_id, session, taker, due_at,
                  payload, available_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (lane_id, execution, activity) DO NOTHING
