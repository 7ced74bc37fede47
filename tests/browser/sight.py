"""What can be read: a script that finds texts whose contrast with their ground is below what WCAG calls AA."""

READABLE = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = [r, g, b].map((each) => (each /= 255) <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const ground = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const each = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !each.checkVisibility() || each.closest("dialog, .unseen, svg, [disabled]")) continue;
    const style = getComputedStyle(each);
    const [one, other] = [light(parse(style.color)), light(ground(each))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    const told = [texts.currentNode.data.trim().slice(0, 40), style.color, ground(each), ratio.toFixed(2)];
    if (ratio < (large ? 3 : 4.5)) faint.push(told);
  }
  return faint;
}"""
