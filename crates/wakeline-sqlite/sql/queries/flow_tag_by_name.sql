-- The number of a tag.
-- Called by: names::tag.
SELECT tag_id FROM tags WHERE name = ?1
