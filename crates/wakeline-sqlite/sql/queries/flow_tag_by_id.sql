-- A tag by its number.
-- Called by: names::tag_name.
SELECT name FROM tags WHERE tag_id = ?1
