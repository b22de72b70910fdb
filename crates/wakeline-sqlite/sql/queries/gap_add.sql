-- Records that a message was deleted.
INSERT INTO gaps (partition_id, offset) VALUES (?1, ?2)
