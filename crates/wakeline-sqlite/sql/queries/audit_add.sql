-- Records an audit event, in the transaction of the change that it describes.
INSERT INTO audit (at, actor, act, target, detail) VALUES (?1, ?2, ?3, ?4, ?5)
