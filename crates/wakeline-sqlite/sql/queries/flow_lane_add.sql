-- Inserts an empty lane.
INSERT INTO lanes (instance) VALUES (?1)
