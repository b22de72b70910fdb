-- Returns those of the given privileges that are lost, because their table or view was dropped and
-- created again under the same name. A privilege on a column that no longer exists is ignored. It
-- runs after migrations.
SELECT g.statement
FROM unnest($2::oid[], $3::text[], $4::text[], $5::text[])
    WITH ORDINALITY AS g (former, name, attribute, statement, ord)
JOIN pg_class c ON c.relname = g.name AND c.oid <> g.former
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1
WHERE g.attribute IS NULL OR EXISTS (
    SELECT FROM pg_attribute t
    WHERE t.attrelid = c.oid AND t.attname = g.attribute AND NOT t.attisdropped)
ORDER BY g.ord
