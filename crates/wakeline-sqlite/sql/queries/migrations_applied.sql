-- The checksum with which a migration was applied.
SELECT checksum FROM migrations WHERE version = ?1
