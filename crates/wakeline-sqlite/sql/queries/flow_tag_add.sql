-- Gives a tag a number.
-- Called by: names::ensure_tag.
INSERT INTO tags (name) VALUES (?1)
