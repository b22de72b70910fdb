-- The checksum with which a migration was applied.
-- Called by: migrate::applied.
SELECT checksum FROM migrations WHERE version = ?1
