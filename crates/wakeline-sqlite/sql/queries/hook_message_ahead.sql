-- Messages of an application from a number on. Uses the index hook_messages_order.
SELECT message_no, event_type, created_at FROM hook_messages INDEXED BY hook_messages_order
WHERE application_no = ?1 AND message_no >= ?2 ORDER BY message_no LIMIT ?3
