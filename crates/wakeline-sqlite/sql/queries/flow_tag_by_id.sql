-- A tag by its number.
SELECT name FROM tags WHERE tag_id = ?1
