// The story of an A2A client, told with the official JavaScript SDK.
//
// Step by step the same as `../python/client.py`, which says what has to be in the environment.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { status } from '@grpc/grpc-js';
import { Role, TaskState } from '@a2a-js/sdk';
import {
  ClientFactory,
  ClientFactoryOptions,
  JsonRpcTransportFactory,
  RestTransportFactory,
  createAuthenticatingFetchWithRetry,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import {
  A2AError,
  RequestMalformedError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
  VersionNotSupportedError,
} from '@a2a-js/sdk/errors';

const { A2A_URL: url, A2A_KEY: key, A2A_TRANSPORT: transport } = process.env;
const unknownTask = '01J00000000000000000000000';
const tenant = ''; // The client fills in the agent's, from its card.

async function main() {
  const frank = await connect(url, key);
  await card(frank);
  await sending(frank);
  await streams(frank);
  await lists(frank);
  await questions(frank);
  await parts(frank);
  await cancelling(frank);
  await webhooks(frank);
  await errors(frank);
  await refusals(frank);
}

// A client of the agent at this URL. Over HTTP the key goes through the SDK's own authenticating fetch; its gRPC transport
// takes it from an interceptor.
async function connect(url, key) {
  const headers = { Authorization: `Bearer ${key}` };
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => headers,
    shouldRetryWithHeaders: async () => undefined,
  });
  const bearer = {
    async before(call) {
      call.options = { ...call.options, serviceParameters: { ...call.options?.serviceParameters, ...headers } };
    },
    async after() {},
  };
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [
      new JsonRpcTransportFactory({ fetchImpl }),
      new RestTransportFactory({ fetchImpl }),
      new GrpcTransportFactory(),
    ],
    preferredTransports: [transport],
    clientConfig: { interceptors: transport === 'GRPC' ? [bearer] : [] },
  });
  // Without the slash at its end, the last part of the URL would be lost.
  const client = await new ClientFactory(options).createFromUrl(`${url}/`);
  assert.equal(client.transport.protocolName, transport);
  return client;
}

function textPart(value) {
  return { content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' };
}

// A message. Every field has to be there: over gRPC the SDK would send "undefined" for a missing one.
function message(kind, { parts = [textPart('Please do your work.')], taskId = '', contextId = '' } = {}) {
  const rest = { metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { messageId: `${kind}-${randomUUID()}`, contextId, taskId, role: Role.ROLE_USER, parts, ...rest };
}

function request(message, returnImmediately = false) {
  const unset = { taskPushNotificationConfig: undefined, historyLength: undefined };
  const configuration = { acceptedOutputModes: [], returnImmediately, ...unset };
  return { tenant, metadata: undefined, configuration, message };
}

function page(contextId, pageSize, pageToken = '') {
  return { tenant, contextId, status: TaskState.TASK_STATE_UNSPECIFIED, pageSize, pageToken };
}

function state(task) {
  return TaskState[task.status.state].replace('TASK_STATE_', '').toLowerCase();
}

function text(parts) {
  return parts.map((part) => (part.content.$case === 'text' ? part.content.value : '')).join('\n');
}

function said(task) {
  return text(task.status.message.parts);
}

// Reads a stream to its end: how it began, what it brought, how the task stood at last.
async function follow(stream) {
  let [first, artifacts, last] = [null, {}, null];
  for await (const { payload } of stream) {
    first ??= payload.$case;
    if (payload.$case === 'task') {
      artifacts = Object.fromEntries(payload.value.artifacts.map((each) => [each.artifactId, text(each.parts)]));
    }
    if (payload.$case === 'artifactUpdate') {
      artifacts[payload.value.artifact.artifactId] = text(payload.value.artifact.parts);
    } else {
      last = state(payload.value);
    }
  }
  return { first, artifacts, last };
}

function done(step, found) {
  console.log(JSON.stringify({ step, ...found }));
}

async function card(frank) {
  const open = await (await fetch(`${url}/.well-known/agent-card.json`)).json();
  done('card', {
    name: open.name,
    bindings: open.supportedInterfaces.map((each) => each.protocolBinding),
    streaming: open.capabilities.streaming,
    push: open.capabilities.pushNotifications,
  });
  // With a key, this is the extended card.
  const extended = await frank.getAgentCard();
  assert.equal(extended.name, open.name);
  const [{ params }] = extended.capabilities.extensions;
  done('extended card', { handle: params.handle, role: params.role });
}

async function sending(frank) {
  let task = await frank.sendMessage(request(message('tck-complete-task'), true));
  done('send without waiting', { state: state(task) });

  task = await frank.sendMessage(request(message('tck-complete-task')));
  done('send and wait', { state: state(task), said: said(task) });

  const answer = await frank.sendMessage(request(message('tck-message-response')));
  assert.ok('messageId' in answer);
  done('direct answer', { role: Role[answer.role], said: text(answer.parts) });
}

async function streams(frank) {
  done('stream', await follow(frank.sendMessageStream(request(message('tck-stream-001')))));

  // Cut off while the agent waits for an answer: the client goes away in the middle of its stream.
  const cut = message('tck-input-required', { contextId: randomUUID() });
  for await (const { payload } of frank.sendMessageStream(request(cut))) {
    if (state(payload.value) === 'input_required') break;
  }

  const again = await connect(url, key);
  const { tasks: [task] } = await again.listTasks(page(cut.contextId, 50));
  const stream = again.resubscribeTask({ tenant, id: task.id });
  const found = (await stream.next()).value.payload.value;
  assert.equal(found.id, task.id);
  await frank.sendMessage(request(message('tck-artifact-text', { taskId: task.id }), true));
  done('subscribe again', { state: state(found), then: await follow(stream) });
}

async function lists(frank) {
  const [contextId, sent] = [randomUUID(), []];
  for (let count = 0; count < 5; count++) {
    sent.push((await frank.sendMessage(request(message('tck-complete-task', { contextId })))).id);
  }
  const pages = [];
  let token = '';
  do {
    const found = await frank.listTasks(page(contextId, 2, token));
    assert.deepEqual([found.pageSize, found.totalSize], [2, 5]);
    pages.push(found.tasks.map((task) => task.id));
    token = found.nextPageToken;
  } while (token);
  assert.deepEqual(pages.flat(), sent.reverse());
  done('list', { pages: pages.map((page) => page.length) });
}

async function questions(frank) {
  let task = await frank.sendMessage(request(message('tck-input-required')));
  const question = { state: state(task), said: said(task) };
  const answer = message('tck-complete-task', { taskId: task.id, contextId: task.contextId });
  task = await frank.sendMessage(request(answer));
  done('question', { ...question, then: state(task) });

  const lengths = {};
  for (const asked of [undefined, 2, 0]) {
    task = await frank.getTask({ tenant, id: task.id, historyLength: asked });
    lengths[asked ?? 'none'] = task.history.map((message) => Role[message.role]);
  }
  done('history', { lengths });
}

async function parts(frank) {
  const [markdown, data] = [textPart('Größe: 3 µm\n'), { n: 42, half: 0.5, list: [true, null, 'x', {}] }];
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const sent = [
    { ...markdown, mediaType: 'text/markdown', metadata: { n: 1 } },
    {
      content: { $case: 'raw', value: bytes },
      metadata: undefined,
      filename: 'all.bin',
      mediaType: 'application/octet-stream',
    },
    {
      content: { $case: 'url', value: 'https://example.com/a%20b?c=d' },
      metadata: undefined,
      filename: 'a b',
      mediaType: 'text/html',
    },
    { content: { $case: 'data', value: data }, metadata: undefined, filename: '', mediaType: '' },
  ];
  let task = await frank.sendMessage(request(message('tck-artifact-file', { parts: sent })));
  task = await frank.getTask({ tenant, id: task.id, historyLength: undefined });
  assert.deepEqual(task.history[0].parts, sent);
  const [{ parts: [output] }] = task.artifacts;
  done('parts', {
    sent: sent.map((part) => part.content.$case),
    output: [output.content.value.toString(), output.filename, output.mediaType],
  });
}

async function cancelling(frank) {
  const task = await frank.sendMessage(request(message('tck-input-required')));
  const states = [];
  for (const _ of [1, 2]) {
    states.push(state(await frank.cancelTask({ tenant, id: task.id, metadata: undefined })));
  }
  done('cancel twice', { states });
}

async function webhooks(frank) {
  const calls = [];
  const receiver = createServer(async (asked, answer) => {
    const chunks = await asked.toArray();
    calls.push([asked.headers, JSON.parse(Buffer.concat(chunks))]);
    answer.end();
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const told = `http://127.0.0.1:${receiver.address().port}/told`;

  const task = await frank.sendMessage(request(message('tck-input-required')));
  const kept = [];
  for (const id of ['first', 'second']) {
    const authentication = { scheme: 'Bearer', credentials: `credentials of ${id}` };
    const config = { tenant, taskId: task.id, id, url: told, token: `token-${id}`, authentication };
    const created = await frank.createTaskPushNotificationConfig(config);
    const found = await frank.getTaskPushNotificationConfig({ tenant, taskId: task.id, id });
    assert.deepEqual(found, created);
    kept.push([created.id, created.taskId === task.id, created.url === told, created.authentication.scheme]);
    // What the relay was told in confidence it tells nobody.
    assert.equal(created.authentication.credentials, '');
  }
  const list = async () => {
    const asked = { tenant, taskId: task.id, pageSize: 0, pageToken: '' };
    return (await frank.listTaskPushNotificationConfig(asked)).configs.map((config) => config.id);
  };
  const listed = await list();
  await frank.deleteTaskPushNotificationConfig({ tenant, taskId: task.id, id: 'first' });
  done('webhooks', { kept, listed, left: await list() });

  await frank.sendMessage(request(message('tck-artifact-text', { taskId: task.id })));
  const last = () => calls.at(-1)?.[1].statusUpdate?.status.state.replace('TASK_STATE_', '').toLowerCase();
  for (let tries = 0; tries < 1000 && last() !== 'completed'; tries++) await sleep(10);
  receiver.close();
  receiver.closeAllConnections();
  const secrets = calls.map(([headers]) => [headers.authorization, headers['x-a2a-notification-token']]);
  for (const others of secrets) assert.deepEqual(others, secrets[0]);
  done('told', { kinds: calls.flatMap(([, told]) => Object.keys(told)), last: last(), secrets: secrets[0] });
}

async function errors(frank) {
  const { id } = await frank.sendMessage(request(message('tck-complete-task')));
  const more = () => request(message('tck-complete-task', { taskId: id }));
  // The client itself would always say the version that its transport speaks.
  const serviceParameters = { Authorization: `Bearer ${key}`, 'A2A-Version': '0.3' };
  const cases = [
    ['a missing task', TaskNotFoundError, () => frank.getTask({ tenant, id: unknownTask })],
    ['no task id', TaskNotFoundError, () => frank.getTask({ tenant, id: 'nope' })],
    [
      'cancelling what has ended',
      TaskNotCancelableError,
      () => frank.cancelTask({ tenant, id, metadata: undefined }),
    ],
    ['a message to what has ended', UnsupportedOperationError, () => frank.sendMessage(more())],
    ['subscribing to what has ended', UnsupportedOperationError, () => follow(frank.resubscribeTask({ tenant, id }))],
    ['a stream of what has ended', UnsupportedOperationError, () => follow(frank.sendMessageStream(more()))],
    ['an impossible page', RequestMalformedError, () => frank.listTasks(page('', 1000))],
    ['another version', VersionNotSupportedError, () => frank.transport.getTask({ tenant, id }, { serviceParameters })],
  ];
  for (const [name, expected, call] of cases) {
    const error = await refusal(name, call);
    assert.ok(error instanceof expected, `${name}: ${error.name}: ${error.message}`);
  }
  done('errors', { mapped: cases.map(([name]) => name) });
}

// Whom the relay does not let in. None of it is an error of A2A: the SDK shows what its transport says.
async function refusals(frank) {
  const ask = { tenant, id: unknownTask };
  const stranger = await connect(url, `ah_live_${'a'.repeat(32)}`);
  const disabled = await connect(url, process.env.A2A_KEY_DISABLED);
  const blocked = await connect(url, process.env.A2A_KEY_BLOCKED);
  const limited = await connect(process.env.A2A_LIMITED_URL, process.env.A2A_LIMITED_KEY);
  const calls = {
    'a wrong key': () => stranger.getTask(ask),
    'a disabled agent': () => disabled.getTask(ask),
    'a blocked sender': () => blocked.sendMessage(request(message('tck-complete-task'))),
    'too many calls': () => limited.getTask(ask),
  };
  assert.ok((await refusal('the one call', calls['too many calls'])) instanceof TaskNotFoundError);
  const shown = {};
  for (const [name, call] of Object.entries(calls)) {
    const error = await refusal(name, call);
    assert.ok(error instanceof A2AError, `${name}: ${error}`);
    // What tells them apart: over JSON-RPC the reason, over HTTP+JSON the status, over gRPC its own.
    shown[name] = error.data?.[0].reason ?? error.statusCode?.toString() ?? status[error.status];
  }
  done('refusals', { shown });
}

async function refusal(name, call) {
  let answer;
  try {
    answer = await call();
  } catch (error) {
    return error;
  }
  assert.fail(`${name} was not refused: ${JSON.stringify(answer)}`);
}

await main();
