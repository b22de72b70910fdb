-- The newest migration that was applied, or 0.
-- Called by: migrate::verify.
SELECT coalesce(max(version), 0) FROM migrations
