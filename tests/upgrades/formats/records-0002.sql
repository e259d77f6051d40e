PRAGMA application_id = 0;
PRAGMA user_version = 0;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE erased (
	digest BLOB NOT NULL, 
	at DOUBLE NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "erased" VALUES(X'95CBC0098E686A568D42F6C19861E9A4',1.79588075833033585545e+09);
INSERT INTO "erased" VALUES(X'DFCEF629CDF76E091F8A20674A3FC07A',1.79588075833033585545e+09);
CREATE TABLE rollups (
	day DATE NOT NULL, 
	id BLOB NOT NULL, 
	tenant VARCHAR(256) NOT NULL, 
	user VARCHAR(256) NOT NULL, 
	"key" VARCHAR(256) NOT NULL, 
	route VARCHAR(512) NOT NULL, 
	target VARCHAR(512) NOT NULL, 
	requests BIGINT NOT NULL, 
	failures BIGINT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	cached_input_tokens BIGINT NOT NULL, 
	cache_write_tokens BIGINT NOT NULL, 
	reasoning_tokens BIGINT NOT NULL, 
	nano_usd BIGINT NOT NULL, 
	unpriced BIGINT NOT NULL, 
	PRIMARY KEY (day, id)
);
INSERT INTO "rollups" VALUES('2026-11-18',X'7244A8008AB51D68887ACB89FBB835CA','acme','ann','web','fast','openai/gpt',1,0,10,20,0,0,0,1500,0);
INSERT INTO "rollups" VALUES('2026-11-18',X'0BEC00760A9369D4FD8B17BC2D0FAC33','acme','erased-3f3fec9129dad802','erased-3f3fec9129dad802','fast','openai/gpt',1,0,10,20,0,0,0,1500,0);
CREATE TABLE streams (
	stream VARCHAR(64) NOT NULL, 
	day DATE NOT NULL, 
	request_id VARCHAR(256) NOT NULL, 
	tenant VARCHAR(256) NOT NULL, 
	user VARCHAR(256) NOT NULL, 
	"key" VARCHAR(256) NOT NULL, 
	route VARCHAR(512) NOT NULL, 
	model VARCHAR(512) NOT NULL, 
	client_format VARCHAR(64) NOT NULL, 
	target VARCHAR(512), 
	answered_model VARCHAR(512), 
	started_at DOUBLE NOT NULL, 
	ended_at DOUBLE NOT NULL, 
	first_event_s DOUBLE, 
	longest_gap_s DOUBLE, 
	status VARCHAR(32) NOT NULL, 
	finish_reason VARCHAR(32) NOT NULL, 
	code VARCHAR(64), 
	attempts INTEGER NOT NULL, 
	readers INTEGER NOT NULL, 
	resumes INTEGER NOT NULL, 
	events BIGINT NOT NULL, 
	input_tokens BIGINT, 
	output_tokens BIGINT, 
	cached_input_tokens BIGINT, 
	cache_write_tokens BIGINT, 
	reasoning_tokens BIGINT, 
	usage_from VARCHAR(16) NOT NULL, 
	nano_usd BIGINT, 
	price_version VARCHAR(256) NOT NULL, 
	trace_id VARCHAR(64) NOT NULL, 
	lost BOOLEAN NOT NULL, 
	content TEXT, ended_by VARCHAR(32), 
	PRIMARY KEY (stream, day)
);
INSERT INTO "streams" VALUES('erased-e2020ae1aeea4316','2026-11-18','','acme','erased-3f3fec9129dad802','erased-3f3fec9129dad802','fast','fast','native','openai/gpt','gpt-5',1795000000.0,1795000002.0,NULL,NULL,'completed','stop',NULL,1,0,0,0,10,20,NULL,NULL,NULL,'provider',1500,'','',0,NULL,NULL);
INSERT INTO "streams" VALUES('st_old','2026-11-18','req_st_old','acme','ann','web','fast','fast','native','openai/gpt','gpt-5',1795000000.0,1795000002.0,NULL,NULL,'completed','stop',NULL,1,0,0,0,10,20,NULL,NULL,NULL,'provider',1500,'','',0,NULL,NULL);
CREATE INDEX ix_streams_started ON streams (started_at);
CREATE INDEX ix_streams_user ON streams (user, tenant);
CREATE INDEX ix_rollups_user ON rollups (user, tenant);
CREATE INDEX ix_erased_at ON erased (at);
COMMIT;
