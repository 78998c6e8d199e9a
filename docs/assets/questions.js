// The theme's search takes each word as the beginning of one: `do` finds `domain`. So a question is asked without its small words, and
// other words without the ending that changes most: what is left is what it is about.
const SMALL = new Set(
  ("a about after an and any are as at be been before but by can could did do does for from get had has have how i if in into is it its " +
    "like live may me mine my need no not of on or our say should so still than that the their them then there these they this to too us " +
    "was we were what when where which who why will with would you your").split(" "),
);

function asked(text) {
  const words = text.split(/[\s,;:?!()]+/).filter((word) => word && !SMALL.has(word.toLowerCase()));
  const stems = words.map((word) => (/^[a-z]{6,}$/i.test(word) ? word.replace(/(?:ing|ed|es|e|s)$/, "") : word));
  return stems.join(" ") || text;
}

const postMessage = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  const QUERY = 2; // SearchMessageType of mkdocs-material
  const query = message?.type === QUERY && !message.data.includes('"');
  return postMessage.call(this, query ? { ...message, data: asked(message.data) } : message, ...rest);
};
