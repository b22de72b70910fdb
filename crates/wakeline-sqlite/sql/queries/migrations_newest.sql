-- The version of the newest applied migration, or 0.
SELECT coalesce(max(version), 0) FROM migrations
