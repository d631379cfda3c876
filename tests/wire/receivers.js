/* Other people's JavaScript that reads OTLP. Every request goes to standard output as a line {path, request}.
 * receivers.js mock: a @elastic/mockotlpserver on a free port, whose URL is the first line.
 * receivers.js transformer: @opentelemetry/otlp-transformer's decoder of lines {path, body in base64} on standard input.
 * Packages are found by NODE_PATH. */
'use strict';
const OPTIONS = {longs: String, enums: Number, bytes: String};

function tell(path, request) {
    console.log(JSON.stringify({path, request: request.constructor.toObject(request, OPTIONS)}));
}

if (process.argv[2] === 'mock') {
    const {MockOtlpServer} = require('@elastic/mockotlpserver');
    const server = new MockOtlpServer({logLevel: 'fatal', services: ['http'], httpHostname: '127.0.0.1', httpPort: 0,
        onMetrics: (m) => tell('/v1/metrics', m), onLogs: (m) => tell('/v1/logs', m)});
    server.start().then(() => console.log(server.httpUrl.href));
} else {
    const path = require('path');
    const packages = process.env.NODE_PATH;
    const root = require(path.join(packages, '@opentelemetry/otlp-transformer/build/src/generated/root.js'));
    const collector = root.opentelemetry.proto.collector;
    const types = {'/v1/metrics': collector.metrics.v1.ExportMetricsServiceRequest, '/v1/logs': collector.logs.v1.ExportLogsServiceRequest};
    require('readline').createInterface({input: process.stdin}).on('line', (line) => {
        const {path, body} = JSON.parse(line);
        tell(path, types[path].decode(Buffer.from(body, 'base64')));
    });
}
