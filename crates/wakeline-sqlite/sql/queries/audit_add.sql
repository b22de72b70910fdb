-- Records an administrative act, in the transaction of that act. Called by: access::record.
INSERT INTO audit (at, actor, act, target, detail) VALUES (?1, ?2, ?3, ?4, ?5)
