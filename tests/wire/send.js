/* OpenTelemetry's own JavaScript SDK as a sender: send.js proto|http none|gzip URL HOST. "proto" is OTLP's protobuf, "http" its JSON.
 * Prints what export told of each, as {metrics, logs, warnings}; packages are found by NODE_PATH. */
'use strict';
const [encoding, compression, url, host] = process.argv.slice(2);
const {diag, DiagLogLevel} = require('@opentelemetry/api');
const {resourceFromAttributes} = require('@opentelemetry/resources');
const {MeterProvider, PeriodicExportingMetricReader, AggregationType} = require('@opentelemetry/sdk-metrics');
const {LoggerProvider, SimpleLogRecordProcessor} = require('@opentelemetry/sdk-logs');
const {OTLPMetricExporter} = require(`@opentelemetry/exporter-metrics-otlp-${encoding}`);
const {OTLPLogExporter} = require(`@opentelemetry/exporter-logs-otlp-${encoding}`);
const resource = resourceFromAttributes({'host.name': host, 'service.name': 'sdk', 'an.array': [1, 2], 'a.flag': true});
const told = {metrics: [], logs: [], warnings: []};
const quiet = () => {};
diag.setLogger({warn: (...words) => told.warnings.push(words.join(' ')), error: quiet, info: quiet, debug: quiet, verbose: quiet}, DiagLogLevel.WARN);

/* An exporter that also keeps what it was answered. */
function watched(exporter, answers) {
    const inner = exporter.export.bind(exporter);
    exporter.export = (items, done) => inner(items, (r) => { answers.push(r.error ? String(r.error) : r.code); done(r); });
    return exporter;
}

async function main() {
    const metrics = watched(new OTLPMetricExporter({url: url + '/v1/metrics', compression}), told.metrics);
    const provider = new MeterProvider({resource, readers: [new PeriodicExportingMetricReader({exporter: metrics, exportIntervalMillis: 3600000})],
        views: [{instrumentName: 'odd', aggregation: {type: AggregationType.EXPONENTIAL_HISTOGRAM}}]});
    const meter = provider.getMeter('wire', '7');
    meter.createCounter('requests', {unit: '{request}'}).add(41, {path: '/a', ok: true, n: 3, share: 0.5});
    meter.createCounter('large').add(2 ** 53 - 1);
    meter.createUpDownCounter('open').add(-7);
    meter.createGauge('load').record(0.1, {'näme': 'grüße'});
    const latency = meter.createHistogram('latency', {unit: 's', advice: {explicitBucketBoundaries: [1, 2, 5]}});
    for (const v of [0.25, 1.5, 1.75, 9]) latency.record(v);
    meter.createHistogram('odd').record(3);
    meter.createObservableGauge('many').addCallback((o) => { for (let i = 0; i < 2000; i++) o.observe(i * 1.5, {i}); });
    await provider.forceFlush();

    const logs = new LoggerProvider({resource, processors: [new SimpleLogRecordProcessor({exporter: watched(new OTLPLogExporter({url: url + '/v1/logs', compression}), told.logs)})]});
    const logger = logs.getLogger('wire');
    logger.emit({eventName: 'an.event', severityNumber: 13, severityText: 'WARN', body: {text: 'hällo', list: [1, 'two', {three: 3.5}], yes: true},
        attributes: {'a.b': 'c', n: 12345678901, list: ['x', 'y']}});
    logger.emit({severityNumber: 17, body: 'only text ' + 'x'.repeat(100000)});
    await logs.forceFlush();
    await logs.shutdown();
    await provider.shutdown();
    console.log(JSON.stringify(told));
}
main().catch((e) => { console.error(e); process.exit(1); });
