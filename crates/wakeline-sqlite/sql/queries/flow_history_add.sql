-- Appends the events of a turn.
INSERT INTO history (lane_id, execution, first_event, last_event, events) VALUES (?1, ?2, ?3, ?4, ?5)
