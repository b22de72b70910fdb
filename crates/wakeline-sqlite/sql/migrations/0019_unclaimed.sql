-- Shows what no worker claims.

-- Since when work can be taken that has no due_at; NULL: since before this was kept.
ALTER TABLE work ADD COLUMN available_at INTEGER;
