-- Returns the numbers of capabilities, tags or activity names.
SELECT name, id FROM @schema@.flow_names($1, $2)
