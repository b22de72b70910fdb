-- Assigns a number to a tag.
INSERT INTO tags (name) VALUES (?1)
