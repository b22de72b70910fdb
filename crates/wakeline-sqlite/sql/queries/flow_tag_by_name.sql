-- The number of a tag.
SELECT tag_id FROM tags WHERE name = ?1
