-- Forgets a function that is no longer part of the product. Called by: migrate_up.
DELETE FROM @schema@.function_checksums WHERE name = $1
