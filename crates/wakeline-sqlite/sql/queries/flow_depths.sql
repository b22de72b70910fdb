-- Counts of waiting and leased messages and activities, and of history, in the whole store at ?1.
SELECT (SELECT count(*) FROM lane_messages),
       (SELECT count(*) FROM lane_messages WHERE visible_at > ?1),
       (SELECT count(*) FROM lanes WHERE lease_until > ?1),
       (SELECT count(*) FROM work),
       (SELECT count(*) FROM work WHERE lease_until > ?1),
       (SELECT count(*) FROM executions),
       (SELECT coalesce(sum(last_event), 0) FROM executions)
