-- Audit events, newest first.
SELECT number, at, actor, act, target, detail FROM audit
WHERE (?1 IS NULL OR number < ?1) AND (?2 IS NULL OR actor = ?2)
    AND (?3 IS NULL OR act = ?3) AND (?4 IS NULL OR target = ?4)
ORDER BY number DESC LIMIT ?5
