-- Returns audit events, newest first.
SELECT a.number, a.at, a.actor, a.act, a.target, a.detail FROM @schema@.audit a
WHERE ($1::bigint IS NULL OR a.number < $1) AND ($2::text IS NULL OR a.actor = $2)
    AND ($3::text IS NULL OR a.act = $3) AND ($4::text IS NULL OR a.target = $4)
ORDER BY a.number DESC LIMIT $5
