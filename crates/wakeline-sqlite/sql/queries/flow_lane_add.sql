-- Makes a lane.
-- Called by: Lanes::ensure.
INSERT INTO lanes (instance) VALUES (?1)
