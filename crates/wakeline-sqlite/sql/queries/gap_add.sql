-- Notes that a message was deleted. Called by: delete::delete.
INSERT INTO gaps (partition_id, offset) VALUES (?1, ?2)
